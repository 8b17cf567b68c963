package main

import (
	"remit/work/detect"
	"remit/work/image"
	"remit/work/session"
)

// pinImage gives the image of a repository the digest that its tag had when it was
// pulled here. Nothing is asked of a registry.
func pinImage(home session.Home, facts *detect.Facts) {
	if facts.Image == nil || facts.Image.Pinned != "" {
		return
	}
	ref, err := image.Parse(facts.Image.Name)
	if err != nil || ref.Kind != image.Registry {
		return // a file of the person who wrote it
	}
	store, err := image.Open(home.ImagesDir())
	if err != nil {
		return
	}
	digest, err := store.Resolve(ref)
	if err != nil {
		return // it was not pulled: the file says how
	}
	if img, err := store.Find(digest); err == nil {
		facts.Pin(policyName(ref, &img.Image))
	}
}
