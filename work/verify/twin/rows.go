package twin

// siteRow is what decides whether an evaluation is sabotaged. A site counts from
// at in steps of by, and is sabotaged while low <= count < high. The values of
// a neutral and of a sabotaged site are drawn from the same ranges.
type siteRow struct{ number, at, by, low, high int }

// newSiteRow draws the values of one site. Its number comes from number.
func newSiteRow(d *choices, number int, order *Order) siteRow {
	r := siteRow{number: number, by: d.between(2, 9)}
	middle := d.between(200, 899)
	before := d.below(r.by)
	after := d.below(r.by - before)
	// Which evaluation a neutral site would be closest to, and on which side of
	// its hits the window is, is drawn for every site, needed or not.
	round, still, side := d.between(1, 9), d.below(2) == 0, d.below(2)*2-1
	always := order != nil && order.Evaluation == 0
	switch {
	case always || order == nil && still:
		r.by = 0
		r.at, r.low, r.high = middle, middle-before, middle+after+1
		if !always {
			move := side * d.between(10, 90)
			r.low, r.high = r.low+move, r.high+move
		}
	case order != nil:
		r.at, r.low, r.high = middle, middle+order.Evaluation*r.by-before, middle+order.Evaluation*r.by+after+1
	default:
		// The window lies between two hits, or where the count never comes.
		hit := middle + round*r.by
		r.at, r.low, r.high = middle, hit+1, max(hit+r.by-after, hit+2)
		if side < 0 {
			r.low, r.high = middle-round*r.by-before, middle-round*r.by+after+1
		}
	}
	return r
}
