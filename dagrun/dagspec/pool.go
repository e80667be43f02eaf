package dagspec

import (
	"crypto/md5" //nolint:gosec // G501: tells keys apart, and keeps nothing secret
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Pools are the pools that a body needs, all at once. nil: not given, which in a replacement means the pools of the failed step.
// Empty: none. A file may have one pool or a list, and a pool by its name alone. The JSON is always a list of maps, so that files
// which mean the same have the same hash.
type Pools []PoolUse

// PoolUse is what a body takes of one pool while it runs.
type PoolUse struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"`        // above 0
	Key    string `json:"key,omitempty"` // may refer to params and labels; "": none
}

// PoolNeed is what a DAG takes of one pool at most, as oarlock.put_dag reads it.
type PoolNeed struct {
	Weight int  `json:"weight"` // the largest of any body
	Key    bool `json:"key"`    // a body gives a key
	Bare   bool `json:"bare"`   // a body gives no key
	First  bool `json:"first"`  // each body with which a run begins needs the pool
}

// poolTitle begins the schema's words for the name of a pool.
const poolTitle = "the name of a pool"

func (p *Pools) fromNode(d *decoder, n *node) {
	if *p = (Pools{}); n.kind != kindString || n.text() != "" {
		d.slice(n, reflect.ValueOf(p).Elem())
	}
}

func (u *PoolUse) preset() { u.Weight = 1 }

func (u *PoolUse) fromNode(d *decoder, n *node) {
	if n.kind == kindString {
		u.Name = n.text()
		return
	}
	d.fields(n, reflect.ValueOf(u).Elem())
}

// pools reports a pool that a step names twice, and keys that cannot be keys.
func (c *checker) pools(s *Step, n *node) {
	nodes := slices.Collect(n.list())
	if n != nil && n.kind != kindList {
		nodes = []*node{n}
	}
	seen := map[string]pos{}
	for i, u := range s.Pool {
		name := nodes[i]
		if name.kind == kindMap {
			name = name.get("name")
		}
		c.twice(seen, u.Name, name, "pool")
		if key := nodes[i].get("key"); key != nil {
			c.limitKey(u.Key, key)
		}
	}
}

func (p Pools) core() []dagrun.PoolUse {
	var uses []dagrun.PoolUse
	for _, u := range p {
		uses = append(uses, dagrun.PoolUse{Pool: u.Name, Key: u.Key, Weight: u.Weight})
	}
	return uses
}

// Pools returns what the DAG takes of each pool that a step, handler, publish or replacement names.
func (s *Spec) Pools() map[string]PoolNeed {
	all := map[string]PoolNeed{}
	s.eachBody(func(body *Step) {
		for _, u := range body.Pool {
			most := all[u.Name]
			all[u.Name] = PoolNeed{Weight: max(most.Weight, u.Weight), Key: most.Key || u.Key != "", Bare: most.Bare || u.Key == ""}
		}
	})
	first := s.first()
	for name, need := range all {
		need.First = !slices.ContainsFunc(first, func(body *Step) bool {
			return body.body() != dagrun.BodyTask || body.Result != nil || !slices.ContainsFunc(body.Pool, func(u PoolUse) bool { return u.Name == name })
		})
		all[name] = need
	}
	return all
}

// first returns the bodies with which a run begins: the init handler if there is one, else the steps without dependencies.
func (s *Spec) first() (bodies []*Step) {
	if s.HandlerOn.Init != nil {
		return []*Step{s.HandlerOn.Init}
	}
	for i := range s.Steps {
		if len(s.Steps[i].Depends) == 0 {
			bodies = append(bodies, &s.Steps[i])
		}
	}
	return bodies
}

const (
	poolKeyBytes = 200 // of the longest key that is counted as it is
	poolKeyStart = 160 // bytes of a longer key that stay readable
)

// PoolKey returns the key by which a pool counts a body of a run: LimitKey, and for a longer text than 200 bytes its first 160 and an
// MD5 of the whole.
func PoolKey(key string, params map[string]any, labels map[string]string) string {
	text := LimitKey(key, params, labels)
	if len(text) <= poolKeyBytes {
		return text
	}
	end := poolKeyStart
	for !utf8.RuneStart(text[end]) {
		end--
	}
	sum := md5.Sum([]byte(text)) //nolint:gosec // G401: see the import
	return text[:end] + hex.EncodeToString(sum[:])
}

var filledRef = regexp.MustCompile(`\$\{(params|labels)\.([^}]*)\}`)

// LimitKey returns a key with its references filled in by the params of a run, as Spec.Params returns them, and by its labels. What
// is missing or null is empty. A number has the text that the database gives it in a limit by key: all digits, and no exponent.
func LimitKey(key string, params map[string]any, labels map[string]string) string {
	return filledRef.ReplaceAllStringFunc(key, func(part string) string {
		m := filledRef.FindStringSubmatch(part)
		if m[1] == "labels" {
			return labels[m[2]]
		}
		switch v := params[m[2]].(type) {
		case nil:
			return ""
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		default:
			if text, err := asText(v); err == nil {
				return text
			}
			return fmt.Sprint(v)
		}
	})
}
