package image

// Limits bound what an image may be.
type Limits struct {
	Layers     int   // in a stack; an overlay takes a few hundred
	Manifest   int64 // bytes of a manifest, an index or a configuration
	Blob       int64 // bytes of one compressed layer, and of a whole archive
	Bytes      int64 // of all layers, unpacked
	Entries    int64 // of all layers
	PathLength int
	Depth      int
	Links      int // that are followed on the way to one entry
	Ratio      int64
	RatioFrom  int64 // unpacked bytes below which the ratio does not count
}

// DefaultLimits are far above what images of build tools have: the largest that
// was tried has 38,000 entries and 2.2 GB.
func DefaultLimits() Limits {
	return Limits{Layers: 127, Manifest: 4 << 20, Blob: 8 << 30, Bytes: 32 << 30, Entries: 2_000_000,
		PathLength: 2048, Depth: 128, Links: 40, Ratio: 200, RatioFrom: 256 << 20}
}
