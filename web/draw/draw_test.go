package draw_test

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/web/draw"
)

var start = time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func between(from, to time.Duration) draw.Interval {
	return draw.Interval{From: after(from), To: after(to)}
}

func TestAxis_DrawsIdleTimeShort(t *testing.T) {
	t.Parallel()
	busy := []draw.Interval{between(0, time.Minute), between(30*time.Second, 2*time.Minute), between(3*time.Hour, 3*time.Hour+time.Minute)}
	all := between(0, 3*time.Hour+2*time.Minute)
	plain, short := draw.NewAxis(all, nil), draw.NewAxis(all, busy)
	if plain.IsShortened() || !short.IsShortened() {
		t.Fatalf("shortened: %v and %v", plain.IsShortened(), short.IsShortened())
	}
	if at := plain.Percent(after(2 * time.Minute)); at > 2 {
		t.Errorf("in proportion two minutes of three hours end at %.1f %%", at)
	}
	idle := short.Percent(after(3*time.Hour)) - short.Percent(after(2*time.Minute))
	if idle < 3.9 || idle > 4.1 {
		t.Errorf("three hours without anything take %.1f %%", idle)
	}
	first, last := short.Percent(after(time.Minute)), short.Percent(after(3*time.Hour+time.Minute))-short.Percent(after(3*time.Hour))
	if first-last > 0.1 || last-first > 0.1 {
		t.Errorf("a minute takes %.1f %% here and %.1f %% there", first, last)
	}
}

// A later time never has a smaller position, all positions are from 0 to 100, and ticks have a distance.
func TestAxis_KeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Map(rapid.Int64Range(-1000, 20_000_000), func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond })
		stretch := rapid.Custom(func(t *rapid.T) draw.Interval {
			from := moment.Draw(t, "from")
			return between(from, from+rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 3 * time.Hour}).Draw(t, "long"))
		})
		a := draw.NewAxis(between(0, moment.Draw(t, "end")), rapid.SliceOfN(stretch, 0, 20).Draw(t, "busy"))
		x, y := moment.Draw(t, "x"), moment.Draw(t, "y")
		if px, py := a.Percent(after(min(x, y))), a.Percent(after(max(x, y))); px > py || px < 0 || py > 100.001 {
			t.Fatalf("%s stands at %f, %s at %f", min(x, y), px, max(x, y), py)
		}
		ticks := a.Ticks()
		for i := 1; i < len(ticks); i++ {
			if ticks[i].Percent < ticks[i-1].Percent+10 || ticks[i].After <= ticks[i-1].After {
				t.Fatalf("ticks %+v", ticks)
			}
		}
	})
}

func TestAxis_DrawsWholeElements(t *testing.T) {
	t.Parallel()
	a := draw.NewAxis(between(0, time.Minute), nil)
	marks := []draw.Mark{{At: after(40 * time.Second), Label: `</svg><script>a</script> lost`}}
	label := func(d time.Duration) string { return d.String() }
	bar := draw.Bar{Interval: between(0, time.Second), Class: "b-good", Title: `</title><script>`}
	pieces := []string{
		string(a.Row(draw.Row{Bars: []draw.Bar{bar}, Gaps: []draw.Interval{between(1, 2)}, Note: "<b>"})),
		string(a.Row(draw.Row{Bars: []draw.Bar{bar}, In: "<b>"})),
		string(a.Row(draw.Row{Note: "<script>"})),
		string(a.Head(label, marks)), string(a.Grid(marks)),
		string(draw.Progress([]draw.Part{{2, "b-good"}, {0, "b-bad"}, {1, "b-active"}}, 6)),
		string(draw.Pair(draw.Length{}, draw.Length{Class: "b-good", Title: `</title><script>`, Took: time.Minute}, time.Second)),
	}
	for _, p := range pieces {
		if err := xml.Unmarshal([]byte(p), new(struct{})); err != nil {
			t.Errorf("%v: %s", err, p)
		}
		for _, refused := range []string{"<script", "style=", "<b>"} {
			if strings.Contains(p, refused) {
				t.Errorf("%s in %s", refused, p)
			}
		}
	}
	if !strings.Contains(pieces[6], `y="18" width="100.00%"`) || strings.Count(pieces[6], "<rect") != 1 {
		t.Errorf("one bar of a pair, as wide as there is room: %s", pieces[6])
	}
	if got := strings.Count(pieces[5], "<rect"); got != 3 {
		t.Errorf("%d parts with the base: %s", got, pieces[5])
	}
}
