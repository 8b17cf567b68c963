package git

import (
	"bytes"
	"context"
	"strings"
)

// CheckIgnore returns those of paths that the .gitignore files of d.WorkTree ignore. The index is not asked: what is
// tracked is for the caller to know. d.WorkTree must be a directory of ours without symbolic links.
func (d Dir) CheckIgnore(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	// check-ignore takes pathspecs, and none that are declared literal. "./" keeps a leading colon from being magic.
	out, err := d.output(ctx, call{
		args:  []string{"check-ignore", "-z", "--stdin", "--no-index"},
		stdin: strings.NewReader("./" + strings.Join(paths, "\x00./") + "\x00"),
		magic: true,
	})
	if exited(err, 1) { // none
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ignored []string
	for path := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		ignored = append(ignored, strings.TrimPrefix(string(path), "./"))
	}
	return ignored, nil
}
