package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker/logship"
)

// Limits of what a task puts out, whatever executes it.
const (
	MaxTextBytes   = 64 << 10 // a value that is a text
	MaxJSONBytes   = 1 << 20  // any other value, and a text declared as json
	MaxOutputBytes = 1 << 20  // all values of a task
)

const elsewhere = "put large data elsewhere and output its address"

// outcome is the result of a body as it goes to the core.
func (t *Task) outcome(res dagrun.Result) dagrun.Result {
	res.Reason = t.Masked(res.Reason)
	switch {
	case res.Kind != dagrun.KindNone || t.Publish: // a publish puts nothing out
		return res
	case t.settling:
		res.Settled = true // checked before it was
		return res
	}
	if err := t.CheckOutputs(res.Outputs); err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode, Reason: err.Error()}
	}
	return res
}

// CheckOutputs says what is wrong with the outputs of a body that is about to succeed. Each result passes it; an executor
// that makes anything durable together with its outputs asks before.
func (t *Task) CheckOutputs(outputs dagrun.JSON) error {
	switch {
	case t.taken+len(outputs) > dagrun.MaxRunOutputs:
		return fmt.Errorf("the outputs of the run have more than %d bytes: %s", dagrun.MaxRunOutputs, elsewhere)
	case holdsNUL(string(outputs)):
		return errors.New("an output holds a NUL byte, which no text in Postgres can: encode it, with base64 for one")
	case len(outputs) <= MaxTextBytes:
		return nil // whatever is in it: most outputs are small
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(outputs), &values); err != nil {
		return fmt.Errorf("the outputs are no JSON object: %w", err)
	}
	total := 0
	for name, value := range values {
		size, limit := t.measure(name, value)
		if size > limit {
			return fmt.Errorf("output %s has %d bytes, at most %d: %s", name, size, limit, elsewhere)
		}
		if total += size; total > MaxOutputBytes {
			return fmt.Errorf("the outputs have more than %d bytes: %s", MaxOutputBytes, elsewhere)
		}
	}
	return nil
}

// measure is how long a value is, as its reader gets it, and how long it may be.
func (t *Task) measure(name string, value json.RawMessage) (size, limit int) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil {
		return len(value), MaxJSONBytes // a list, a map, a number
	}
	if text == nil {
		return 0, MaxJSONBytes
	}
	if t.declares(name, "json") {
		return len(*text), MaxJSONBytes
	}
	return len(*text), MaxTextBytes
}

func (t *Task) declares(name, kind string) bool {
	var declared []dagspec.Output
	if t.Body != nil {
		declared = t.Body.Outputs
	}
	for _, o := range declared {
		if o.Name == name {
			return o.Type == kind
		}
	}
	return false
}

// Masked takes secrets out of a text that is stored and shown as it is: a reason, an answer that repeats what it was sent.
func (t *Task) Masked(text string) string {
	for _, s := range t.shapes() {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// MaskedCut is Masked for the beginning of a longer text. It leaves off what may be the beginning of a secret, which Masked
// would not know for one.
func (t *Task) MaskedCut(text string) string {
	return logship.MaskBeginning(text, t.shapes())
}

// MaskedName is Masked for the name of a header, whose capitals the server or the HTTP client has chosen.
func (t *Task) MaskedName(name string) string {
	lower := strings.ToLower(name)
	masked := lower
	for _, s := range t.shapes() {
		masked = strings.ReplaceAll(masked, strings.ToLower(s), "***")
	}
	if masked == lower {
		return name
	}
	return masked
}

// shapes are the forms in which secrets are masked, the longest first: one may be a part of another.
func (t *Task) shapes() []string {
	var shapes []string
	for _, secret := range t.masked() {
		shapes = append(shapes, logship.Shapes(secret)...)
		for _, s := range []string{secret, strings.TrimSpace(secret)} { // as an error quotes it
			quoted := strconv.Quote(s)
			shapes = append(shapes, quoted[1:len(quoted)-1])
		}
	}
	shapes = slices.DeleteFunc(shapes, func(s string) bool { return len(s) < minSecretBytes })
	slices.SortFunc(shapes, func(a, b string) int { return len(b) - len(a) })
	return shapes
}

// masked are the values that nobody is to see.
func (t *Task) masked() []string {
	return slices.AppendSeq(slices.Clone(t.hidden), maps.Values(t.Secrets))
}

// holdsNUL finds what JSON allows and Postgres refuses: \u0000, unless its backslash is one that is escaped.
func holdsNUL(text string) bool {
	for {
		before, after, found := strings.Cut(text, `\u0000`)
		if !found {
			return false
		}
		if slashes := len(before) - len(strings.TrimRight(before, `\`)); slashes%2 == 0 {
			return true
		}
		text = after
	}
}
