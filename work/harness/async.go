package harness

import "sync"

// begin runs f beside the caller, who waits for it by calling the result, as
// often as it likes.
func begin[T any](f func() (T, error)) func() (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	return sync.OnceValues(func() (T, error) {
		r := <-done
		return r.value, r.err
	})
}
