package depend

import (
	"context"
	"errors"
	"maps"

	"remit/law/task"
)

// PrepareHead returns the layers of a changed tree, made from the lock files that the
// change leaves, and whether any of them is another one than that of the base. What
// is made, how, and with which commands is still for the policy of the base to say.
//
// The change decides what is fetched: names and versions in its lock files are seen by
// the registry. Nothing else of it leaves: it is read as data, as the base is.
func (b *Builder) PrepareHead(ctx context.Context, env task.Environment, base *Prepared, head Base) (out *Prepared, changed bool, err error) {
	if len(base.Layers) != len(env.Prepare) {
		return nil, false, errors.New("depend: the layers of the base are not those of the environment")
	}
	out = &Prepared{Env: maps.Clone(env.Env)}
	if out.Env == nil {
		out.Env = map[string]string{}
	}
	for i, p := range env.Prepare {
		l, plan, err := b.prepare(ctx, p, env.Env, head, out.beside(), base.Layers[i])
		if err != nil {
			out.Release()
			return nil, false, err
		}
		out.add(l, plan)
		changed = changed || l.Key != base.Layers[i].Key
	}
	return out, changed, nil
}

// Differences are the deliveries that one layer has and another one has not: by name,
// version and digest.
func Differences(was, now *Layer) (removed, added []Delivery) {
	without := func(from, other *Layer) (out []Delivery) {
		type delivered struct{ name, version, digest string }
		have := map[delivered]bool{}
		for _, d := range other.Deliveries {
			have[delivered{d.Name, d.Version, d.SHA256}] = true
		}
		for _, d := range from.Deliveries {
			if !have[delivered{d.Name, d.Version, d.SHA256}] {
				out = append(out, d)
			}
		}
		return out
	}
	return without(was, now), without(now, was)
}
