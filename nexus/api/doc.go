// Package api is the contract of the authority: openapi.yaml, the types and
// operations generated from it, and the client that calls them.
//
// [Connect] makes a client that carries a credential. Each operation of the
// contract is a value with the types of its parameters, body and answer:
//
//	c, err := api.Connect(url, token, api.Options{})
//	job, err := api.GetJob.Get(ctx, c, jobID)
//	run, err := api.CreateRun.Do(ctx, c, api.NewKey(), api.None{}, api.RunRequest{RepoRef: repo})
//
// The server takes method, path and scope of its routes from the same values.
//
// # Keys
//
// Every mutation takes an Idempotency-Key: one for each intent ([NewKey]), the
// same one for each attempt at it. The client repeats a request with its key when
// the connection broke, or on 429 and 503 ([Retry]); that is safe because the
// authority answers a repeat with the stored answer and never acts twice.
//
// # Errors
//
// A refusal is a *reason.Error whose Code is the problem's code. A *StatusError
// in its chain has the HTTP status and the request id. A success that the
// contract does not have, or that lacks a required member, is store_unavailable:
// an answer without an error has its value. So a member that an answer gets later
// has to be optional, since servers are older than their clients at times.
package api

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config config.yaml openapi.yaml
//go:generate go test . -run TestOperations -update
