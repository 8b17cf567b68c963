package faulty

import "remit/proof/journal"

// DropStep keeps every entry of one journal step from being written.
func DropStep(name string) Fault {
	return Fault{Name: "drop." + name, Journal: func(s journal.Step) []journal.Step {
		if s.Name == name {
			return nil
		}
		return []journal.Step{s}
	}}
}

// DelayStep writes a journal step only after another one.
func DelayStep(name, after string) Fault {
	var held []journal.Step
	return Fault{Name: "delay." + name, Journal: func(s journal.Step) []journal.Step {
		switch s.Name {
		case name:
			held = append(held, s)
			return nil
		case after:
			out := append([]journal.Step{s}, held...)
			held = nil
			return out
		}
		return []journal.Step{s}
	}}
}
