package main

import "sandboxd/cmd/sandboxd/api"

// resultObject is what sbx run --json prints and --status-fd gets, the same as the
// daemon answers.
type (
	resultObject = api.Result
	errorObject  = api.ErrorObject
)

// list makes a list that is never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
