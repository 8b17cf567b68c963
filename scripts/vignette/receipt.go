package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A rule says what is wrong with a value, "" when nothing is.
type rule func(v any) string

// field is one member of a receipt's payload and what it has to be. A dot
// separates levels.
type field struct {
	name string
	rule rule
}

// members pairs names of members with what each has to be: a rule, or a value.
func members(pairs ...any) (list []field) {
	for pair := range slices.Chunk(pairs, 2) {
		demand := is(pair[1])
		switch r := pair[1].(type) {
		case rule:
			demand = r
		case func(any) string:
			demand = r
		}
		list = append(list, field{fmt.Sprint(pair[0]), demand})
	}
	return list
}

// is demands one value.
func is(want any) rule {
	return func(v any) string {
		if fmt.Sprint(v) != fmt.Sprint(want) || v == nil {
			return fmt.Sprintf("is %v, not %v", v, want)
		}
		return ""
	}
}

// some demands a text that is not empty.
func some(v any) string {
	if s, ok := v.(string); !ok || s == "" {
		return fmt.Sprintf("is %v, not a text", v)
	}
	return ""
}

// begins demands a text with a beginning.
func begins(prefix string) rule {
	return func(v any) string {
		if s, ok := v.(string); !ok || !strings.HasPrefix(s, prefix) || s == prefix {
			return fmt.Sprintf("is %v, not %s…", v, prefix)
		}
		return ""
	}
}

// isDigest demands the text of a SHA-256.
func isDigest(v any) string {
	s, _ := v.(string)
	if hex, ok := strings.CutPrefix(s, "sha256:"); !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Sprintf("is %v, not a digest", v)
	}
	return ""
}

// atLeast demands a whole number.
func atLeast(least int64) rule {
	return func(v any) string {
		n, ok := v.(json.Number)
		i, err := n.Int64()
		if !ok || err != nil || i < least {
			return fmt.Sprintf("is %v, not a number from %d", v, least)
		}
		return ""
	}
}

// items demands a list of a length.
func items(count int) rule {
	return func(v any) string {
		if list, ok := v.([]any); !ok || len(list) != count {
			return fmt.Sprintf("is %v, not %d items", v, count)
		}
		return ""
	}
}

// holds demands a list with a text in it.
func holds(want string) rule {
	return func(v any) string {
		if list, _ := v.([]any); slices.Contains(list, any(want)) {
			return ""
		}
		return fmt.Sprintf("is %v, without %s", v, want)
	}
}

// wrong lists the members that break their rule.
func wrong(payload any, fields []field) []string {
	var list []string
	for _, f := range fields {
		if why := f.rule(at(payload, strings.Split(f.name, ".")...)); why != "" {
			list = append(list, f.name+" "+why)
		}
	}
	return list
}

// shape is a receipt that has to be there exactly once, and its members.
type shape struct {
	receipt string
	fields  []field
}

// one is a receipt whose members are these pairs.
func one(receipt string, pairs ...any) shape { return shape{receipt, members(pairs...)} }

// receipts records, for each shape, that a log has that receipt once and that
// its members are right. It returns the receipts.
func (s *step) receipts(events []event, shapes []shape) map[string]receipt {
	have := receiptsOf(events)
	found := map[string]receipt{}
	for _, want := range shapes {
		var names []string
		for _, f := range want.fields {
			names = append(names, f.name)
		}
		text := "one " + want.receipt + ": " + strings.Join(names, ", ")
		list := have[want.receipt]
		if len(list) != 1 {
			s.ok(false, text, fmt.Sprintf("there are %d", len(list)))
			continue
		}
		s.none(text, wrong(list[0].Payload, want.fields))
		found[want.receipt] = list[0]
	}
	return found
}
