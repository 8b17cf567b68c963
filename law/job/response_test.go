package job_test

import (
	"fmt"
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/reason"
)

// TestFiguresOutOfRange: limits and usage that cannot have been measured are not
// read at all, so that no comparison has to think of them.
func TestFiguresOutOfRange(t *testing.T) {
	t.Parallel()
	blocks := map[string][]string{
		"caps":  {"cpu_millis", "memory_mb", "disk_mb", "pids", "timeout_secs"},
		"usage": {"cpu_time_ms", "peak_memory_bytes", "wall_ms", "disk_write_bytes", "network_bytes"},
	}
	heads := map[string]string{
		job.SandboxRun: `{"env_info":{"image_digest":"host"},"runs":[],"status":"failed","%s":{"%s":%d}}`,
		job.EngineRun:  `{"status":"failed","%s":{"%s":%d}}`,
	}
	for kind, head := range heads {
		for block, names := range blocks {
			for _, name := range names {
				for figure, good := range map[int64]bool{-1: false, 0: true, 4096: true, 1<<63 - 1: false} {
					text := fmt.Sprintf(head, block, name, figure)
					_, err := job.ParseResponse(kind, []byte(text))
					if good != (err == nil) || !good && (reason.CodeOf(err) != reason.JobInvalid || !strings.Contains(fmt.Sprint(err), block+"."+name)) {
						t.Errorf("%s: %v", text, err)
					}
				}
			}
		}
	}
}
