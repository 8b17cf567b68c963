package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

func TestBusyAndTheLock(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	fill(t, w)
	if busy, err := journal.Busy(path); err != nil || !busy {
		t.Errorf("Busy with a writer = %v, %v", busy, err)
	}
	if _, err := journal.Continue(path); reason.CodeOf(err) != reason.SessionBusy {
		t.Errorf("second writer: %v", err)
	}
	if _, err := journal.CloseTorn(path, start); reason.CodeOf(err) != reason.SessionBusy {
		t.Errorf("repair under a writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if busy, err := journal.Busy(path); err != nil || busy {
		t.Errorf("Busy without a writer = %v, %v", busy, err)
	}
	if _, err := journal.Busy(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Busy without a file: %v", err)
	}
}

// Probing must never make a writer fail.
func TestBusyProbesDoNotDisturbAWriter(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	fill(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := journal.Busy(path); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 20 {
		w, err := journal.Continue(path)
		if err != nil {
			t.Error(err)
			break
		}
		w.Close()
	}
	close(stop)
	group.Wait()
}

func TestContinue(t *testing.T) {
	t.Parallel()
	w, path := create(t)
	first := fill(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := journal.Continue(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w.Entries(), first) {
		t.Errorf("Continue has %d entries", len(w.Entries()))
	}
	e, err := w.Append(steps()[0])
	if err != nil || e.Seq != int64(len(first)) || *e.PrevHash != first[len(first)-1].EntryHash {
		t.Errorf("next entry is %+v, %v", e, err)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	log, err := journal.ReadFile(path)
	if err != nil || len(log.Entries) != len(first)+1 {
		t.Errorf("%v, %v", log, err)
	}
}

func TestContinueRefuses(t *testing.T) {
	t.Parallel()
	whole := content(t)
	tests := []struct {
		name string
		file []byte
		code reason.Code
		line int
	}{
		{"torn", whole[:len(whole)-5], reason.JournalTorn, len(steps())},
		{"changed", bytes.Replace(whole, []byte("verify"), []byte("verifx"), 1), reason.JournalChain, 2},
		{"garbage line", append(bytes.Clone(whole), "x\n"...), reason.JournalSyntax, len(steps()) + 1},
		{"empty", nil, reason.JournalSyntax, 0},
		{"only a torn line", whole[:10], reason.JournalSyntax, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := journal.Continue(path)
			wantCode(t, err, test.code, test.line, path)
			if errors.Is(err, journal.ErrTorn) != (test.code == reason.JournalTorn) {
				t.Errorf("errors.Is(%v, ErrTorn) is wrong", err)
			}
			if busy, err := journal.Busy(path); err != nil || busy {
				t.Errorf("the lock is kept: %v, %v", busy, err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, test.file) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestCloseTornRecordsTheLoss(t *testing.T) {
	t.Parallel()
	whole := content(t)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	long := append(bytes.Clone(whole[:last]), strings.Repeat("y", 5000)...)
	for name, file := range map[string][]byte{
		"cut line": whole[:len(whole)-5], "one byte": whole[:last+1], "LF missing": whole[:len(whole)-1], "longer than the repair": long,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := journal.CloseTorn(path, start)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append(steps()[0]); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			log, err := journal.ReadFile(path)
			if err != nil || log.TornBytes != 0 || len(log.Entries) != len(steps())+1 {
				t.Fatalf("%+v, %v", log, err)
			}
			if !reflect.DeepEqual(log.Entries, w.Entries()) {
				t.Error("memory and file differ")
			}
			repair := log.Entries[len(steps())-1]
			torn := file[last:]
			want := fmt.Sprintf(`{"torn_bytes":%d,"torn_sha256":"%s"}`, len(torn), canon.Digest(torn))
			if repair.Name != journal.TornStep || string(repair.Inputs) != want {
				t.Errorf("repair is %+v, want inputs %s", repair, want)
			}
		})
	}
}

func TestCloseTornOfAWholeJournalIsContinue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, content(t), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := journal.CloseTorn(path, start)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if len(w.Entries()) != len(steps()) {
		t.Errorf("%d entries", len(w.Entries()))
	}
}
