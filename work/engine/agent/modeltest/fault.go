package modeltest

import "net/http"

// Faults are what can go wrong between an agent and a model, each after one
// turn that uses a tool, so that there is something to lose.
func Faults(first Turn) map[string][]Turn {
	const prose = "I will now change the function so that it adds its arguments."
	faults := map[string]Turn{
		"auth":       {Status: http.StatusUnauthorized, Body: "invalid key"},
		"no-model":   {Status: http.StatusNotFound, Body: "no such model"},
		"budget":     {Status: http.StatusBadRequest, Body: "the run has spent its budget (remit: budget_exhausted)"},
		"rate-limit": {Status: http.StatusTooManyRequests, Body: "slow down"},
		"failure":    {Status: http.StatusInternalServerError, Body: "internal failure"},
		"empty":      {Raw: "\n"},
		"html":       {Raw: "<html><body>a login page</body></html>\n"},
		"cut":        {Text: prose, Cut: true, Pieces: 3},
	}
	out := map[string][]Turn{}
	for name, turn := range faults {
		out[name] = []Turn{first, turn}
	}
	return out
}
