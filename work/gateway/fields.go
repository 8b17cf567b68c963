package gateway

// What stands at the top of a body and goes to the provider: the request fields
// that the protocols document, and a few by which local servers get to know how a
// model thinks. Everything else is refused, since servers that speak these
// protocols have hundreds of names of their own, and behind many stands another
// model ("preset", "custom_llm_provider"), another host ("api_base",
// "webhook_url", "data_sources", "kv_transfer_params") or a search
// ("enable_search", "search_settings"). Of the documented fields those are
// missing that do the same ("web_search_options", "mcp_servers", "container"),
// keep state over there ("conversation", "prompt", "background"), or buy what is
// no text ("audio", "modalities").
var fields = map[Protocol]map[string]bool{
	Chat: with(common,
		"messages", "stop", "seed", "n", "max_tokens", "max_completion_tokens", "parallel_tool_calls", "store",
		"frequency_penalty", "presence_penalty", "repetition_penalty", "min_p", "logit_bias", "logprobs", "top_logprobs",
		"response_format", "prediction", "verbosity", "reasoning_effort", "prompt_cache_key", "prompt_cache_retention",
		"reasoning", "enable_thinking", "thinking_budget", "chat_template_kwargs", "tool_stream", "usage"),
	Responses: with(common,
		"input", "instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "store", "include", "truncation",
		"previous_response_id", "reasoning", "text", "top_logprobs", "context_management", "prompt_cache_key", "prompt_cache_retention"),
	Messages: with(common,
		"messages", "system", "max_tokens", "stop_sequences", "output_config", "output_format", "context_management", "cache_control"),
}

// common are the names of every protocol.
var common = []string{"model", "stream", "stream_options", "tools", "tool_choice", "temperature", "top_p", "top_k", "thinking"}

// left are the names that do not go to the provider, and whose loss an engine
// does not notice: who is working where, on what device, and what changes the
// price.
var left = with(nil, "metadata", "client_metadata", "user", "user_profile_id", "safety_identifier", "service_tier", "speed",
	"inference_geo")

// conversation are the fields that hold what was said, part by part.
var conversation = with(nil, "messages", "input", "instructions", "system", "prediction")

// plainText are the names below which a string is conversation, or what
// the protocol calls it. No provider takes one for an address.
var plainText = with(nil,
	"text", "content", "output", "input", "instructions", "arguments", "name", "title", "context", "description", "definition", "filename",
	"thinking", "signature", "reasoning", "reasoning_content", "reasoning_text", "summary", "encrypted_content", "refusal", "transcript",
	"id", "call_id", "item_id", "tool_call_id", "tool_use_id", "command", "commands", "diff", "stdout", "stderr", "query", "queries",
	"token", "cited_text", "message", "reason", "author", "recipient", "stop", "stop_sequences", "grammar", "regex", "pattern")

// opaque are the names below which nothing is looked at: the arguments of the
// engine's own tools, and their environment.
var opaque = with(nil, "arguments", "env")

// schemas are the names of JSON schemas.
var schemas = with(nil, "parameters", "input_schema", "output_schema", "schema", "input_examples")

// elsewhere are parts of the names of options behind which something else may
// stand than the model that was admitted.
var elsewhere = []string{"model", "provider", "host", "endpoint", "server", "plugin", "connector", "webhook", "callback",
	"template", "tokenize"}

func with(names []string, more ...string) map[string]bool {
	set := make(map[string]bool, len(names)+len(more))
	for _, list := range [][]string{names, more} {
		for _, name := range list {
			set[name] = true
		}
	}
	return set
}
