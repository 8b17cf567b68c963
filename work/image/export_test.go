package image

// SetLimits puts other bounds on a store.
func (s *Store) SetLimits(l Limits) { s.limits = l }
