package graphview_test

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// A page draws a fragment under a policy that refuses styles and scripts. The names are any text from users.
func TestFragment_LinksEachCard(t *testing.T) {
	t.Parallel()
	v := parse("<script>", "a -> b</title><script> c*\n@exit\na: failed; 2 slots\nb</title><script> = <img onerror=x>")
	svg := graphview.Fragment(v, func(n graphview.Node) (string, bool) { return `/x"><script>?step=` + n.ID, n.ID == "a" })
	var got struct {
		Links []struct {
			Href string `xml:"href,attr"`
			Card struct {
				Class string `xml:"class,attr"`
			} `xml:"g"`
		} `xml:"a"`
	}
	if err := xml.Unmarshal([]byte(svg), &got); err != nil {
		t.Fatalf("%v:\n%s", err, svg)
	}
	if len(got.Links) != len(v.Nodes) {
		t.Fatalf("%d links for %d nodes:\n%s", len(got.Links), len(v.Nodes), svg)
	}
	for _, l := range got.Links {
		_, id, _ := strings.Cut(l.Href, "?step=")
		if selected := slices.Contains(strings.Fields(l.Card.Class), "sel"); selected != (id == "a") {
			t.Errorf("%s is selected: %v", id, selected)
		}
		if !strings.HasPrefix(l.Href, `/x"><script>?`) {
			t.Errorf("a card leads to %q", l.Href)
		}
	}
	for _, refused := range []string{"<style", "style=", "<script", "<img", "onerror=x>"} {
		if strings.Contains(svg, refused) {
			t.Errorf("the fragment has %s:\n%s", refused, svg)
		}
	}
}

func TestView_Around(t *testing.T) {
	t.Parallel()
	v := parse("chain", "a -> b\nb -> c\nc -> d\nd -> e\nb -> x\nx -> y\nf")
	for id, want := range map[string]string{"c": "a b c d e", "a": "a b c x", "f": "f", "no": "a b c d e x y f"} {
		var names []string
		for _, n := range v.Around(id, 2).Nodes {
			names = append(names, n.ID)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("within two edges of %s: %s, want %s", id, got, want)
		}
	}
}
