//test:plain-package It only computes: there is one goroutine.

package twin
