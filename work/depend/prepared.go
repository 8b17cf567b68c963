package depend

import (
	"fmt"
	"maps"
	"slices"

	"remit/law/task"
	"remit/work/sandbox"
)

// Prepared are the layers of one environment, held until they are released.
type Prepared struct {
	Layers    []*Layer
	LockFiles [][]string        // of the base, that each layer was made from
	Env       map[string]string // for every command
	PathDirs  []string          // of the workspace, with the programs of the layers
	Services  []sandbox.Service // beside every command; the caller's to fill in

	lists map[string]string // what the layers with packages of Debian add to variables
}

// Release lets the layers be removed.
func (p *Prepared) Release() {
	if p == nil {
		return
	}
	for _, l := range p.Layers {
		l.Release()
	}
}

// Variables are those of every command.
func (p *Prepared) Variables() map[string]string {
	if p == nil {
		return nil
	}
	return p.Env
}

// Served are the services that run beside every command.
func (p *Prepared) Served() []sandbox.Service {
	if p == nil {
		return nil
	}
	return p.Services
}

// Programs are the directories of the workspace that have programs of the layers.
func (p *Prepared) Programs() []string {
	if p == nil {
		return nil
	}
	return p.PathDirs
}

// Digests name what a command finds: the layers by recipe and content, the
// variables, and the services.
func (p *Prepared) Digests() []string {
	if p == nil {
		return nil
	}
	var out []string
	for _, l := range p.Layers {
		out = append(out, l.Key+" "+l.ContentSHA256)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		out = append(out, name+"="+p.Env[name])
	}
	for _, s := range p.Services {
		out = append(out, fmt.Sprintf("service %q %q %q %q %s", s.Name, s.Prepare, s.Run, s.Ready, s.Timeout))
	}
	return out
}

// Mounts are the layers as a sandbox takes them.
func (p *Prepared) Mounts() []sandbox.Layer {
	if p == nil {
		return nil
	}
	var out []sandbox.Layer
	for _, l := range p.Layers {
		out = append(out, sandbox.Layer{Host: l.Tree, Paths: l.Recipe.Paths})
	}
	return out
}

func (p *Prepared) add(l *Layer, plan *plan) {
	p.Layers = append(p.Layers, l)
	p.LockFiles = append(p.LockFiles, plan.lockFiles)
	maps.Copy(p.Env, plan.env)
	join(p.Env, plan.lists)
	if len(plan.lists) > 0 {
		if p.lists == nil {
			p.lists = map[string]string{}
		}
		join(p.lists, plan.lists)
	}
	p.PathDirs = append(p.PathDirs, plan.pathDirs...)
}

// beside are the layers of packages of Debian: what later entries are built with. They
// are held by p.
func (p *Prepared) beside() *Prepared {
	out := &Prepared{lists: p.lists}
	for _, l := range p.Layers {
		if l.Recipe.Ecosystem == string(task.Debian) {
			out.Layers = append(out.Layers, l)
			out.PathDirs = append(out.PathDirs, debianPrograms(l.Recipe.Paths[0])...)
		}
	}
	return out
}
