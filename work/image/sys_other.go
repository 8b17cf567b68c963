//go:build !linux

package image

import (
	"os"

	"remit/proof/reason"
)

// hide fails: an overlay needs Linux, and so does whatever would use the image.
func hide(*os.File, string) error {
	return reason.Errorf(reason.SandboxUnavailable, "images are unpacked on Linux alone").
		WithHint("run Remit in a Linux virtual machine")
}
