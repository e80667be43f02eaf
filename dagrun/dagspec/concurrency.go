package dagspec

import (
	"fmt"
	"regexp"
	"strings"
)

// Concurrency limits how many runs of the DAG with the same key are under way at once. oarlock.put_dag reads its JSON.
type Concurrency struct {
	Key   string `json:"key"`   // may refer to params and labels; "": all runs of the DAG have one key
	Limit int    `json:"limit"` // above 0
}

// String returns the limit in words, such as "3 runs by ${params.tenant}".
func (l *Concurrency) String() string {
	text := fmt.Sprintf("%d runs", l.Limit)
	if l.Limit == 1 {
		text = "1 run"
	}
	if l.Key != "" {
		text += " by " + l.Key
	}
	return text
}

// keyRef matches the references of a key, whole or cut off, and each other $, which a key cannot hold.
var keyRef = regexp.MustCompile(`\$\{\s*([^}\s]*)\s*\}?|\$`)

// concurrency checks the limit by key.
func (c *checker) concurrency() {
	if key := c.root.in("concurrency", "key"); key != nil && c.spec.Concurrency != nil {
		c.limitKey(c.spec.Concurrency.Key, key)
	}
}

// limitKey refuses a reference that has no value when a run is asked for.
func (c *checker) limitKey(key string, n *node) {
	for _, m := range keyRef.FindAllStringSubmatch(key, -1) {
		part, name := m[0], m[1]
		root, rest, _ := strings.Cut(name, ".")
		hint, why := "a key refers to ${params.NAME} and ${labels.NAME}", fmt.Sprintf("a key cannot hold %s", part)
		switch {
		case isSecret(part):
			hint = secretPlaces
		case part != "${"+name+"}":
			hint = "write ${params.NAME} or ${labels.NAME}, without spaces"
		case root == "params":
			hint, why = c.keyParam(rest)
		case root == "labels":
			if _, ok := c.spec.Labels[rest]; ok || c.root.get("labels") == nil && c.root.has("labels") {
				continue
			}
			hint, why = "give it a value in labels: of the DAG, which runs may replace", "the DAG has no label "+rest
		}
		if why != "" {
			c.problem(n, problem{part, why, hint})
		}
	}
}

// keyParam returns why a key cannot refer to a param, with a hint, or two empty texts.
func (c *checker) keyParam(name string) (hint, why string) {
	p := c.names.params[name]
	switch {
	case p == nil && c.names.vague.params:
		return "", ""
	case p == nil:
		return DidYouMean(name, sortedKeys(c.names.params)), "there is no param " + name
	case p.Type == "json":
		return "use a param of another type", fmt.Sprintf("param %s is json, which is no key", name)
	case !p.Required && p.Default == nil:
		return "make it required: true, or give it a default", fmt.Sprintf("param %s may be missing, so runs could have no key", name)
	}
	return "", ""
}
