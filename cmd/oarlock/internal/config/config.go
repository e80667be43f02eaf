package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shape is how many values a setting has.
type Shape int

// Shapes of settings.
const (
	Plain Shape = iota // one value
	List               // any number: a sequence in the file, a,b in the environment, a flag given again and again
	Map                // values by name: a mapping in the file, name=value everywhere else
)

// noItems is how the environment says that a list or a map is there and empty.
const noItems = "[]"

// Key declares one setting.
type Key struct {
	Shape   Shape
	Name    string                    // as in the file: log_level
	Flag    string                    // as the user types it: --log-level
	Env     []string                  // variables in order of precedence: OARLOCK_LOG_LEVEL
	Default string                    // the value when nobody gives one
	Implied []string                  // what is in force when nobody gives one, to be shown: for lists, and where it is found out later
	Usage   string                    // one sentence for people
	Allowed []string                  // the values it may have; empty means any that Check accepts
	Check   func(string) error        // optional, of each value; the error says what is wrong with it
	Show    func(value string) string // how a value is printed; nil means as it is
	Gone    string                    // what holds in place of the setting, which has no effect any more; empty: it has one
}

// Kind names a place a value can come from.
type Kind string

// The places, strongest first.
const (
	FromFlag    Kind = "flag"
	FromEnv     Kind = "env"
	FromFile    Kind = "file"
	FromDefault Kind = "default"
)

// Origin says where a value came from: Where is the flag, the variable or path:line; empty for a default.
type Origin struct {
	Kind  Kind
	Where string
}

// Value is a setting that has been decided.
type Value struct {
	Key    Key
	Text   string   // of a plain one
	Items  []string // of a list; of a map as name=value; nil when nobody gives any
	Origin Origin
}

// Pairs are the values of a map, by name.
func (v Value) Pairs() map[string]string {
	pairs := make(map[string]string, len(v.Items))
	for _, item := range v.Items {
		name, value, _ := strings.Cut(item, "=")
		pairs[name] = value
	}
	return pairs
}

// Shown is the value as it may be printed, with secrets taken out.
func (v Value) Shown() string {
	show := v.Key.Show
	if show == nil {
		show = func(text string) string { return text }
	}
	items := v.Items
	if v.Key.Shape == Plain {
		items = []string{v.Text}
	}
	if v.Origin.Kind == FromDefault && len(v.Key.Implied) > 0 {
		items = v.Key.Implied
	}
	shown := make([]string, len(items))
	for i, item := range items {
		shown[i] = show(item)
	}
	return strings.Join(shown, ", ")
}

// Sources are the places Load looks in.
type Sources struct {
	Flags  map[string][]string         // by key name; only flags that were given
	Lookup func(string) (string, bool) // the environment
	File   *File                       // nil when there is none
}

// Config holds every declared setting.
type Config struct {
	Path   string // of the file that was read; empty when there was none
	values []Value
	gone   []Value
}

// Load decides every key. A bad flag is an *InvalidError with Kind FromFlag, a bad variable one with FromEnv,
// and what is wrong in the file comes as FileErrors.
func Load(keys []Key, from Sources) (*Config, error) {
	inFile, err := from.File.entries(keys)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if from.File != nil {
		c.Path = from.File.Path
	}
	for _, k := range keys {
		v := decide(k, from, inFile)
		if k.Gone != "" {
			if v.Origin.Kind != FromDefault {
				c.gone = append(c.gone, v)
			}
			continue
		}
		if v.Origin.Kind != FromDefault {
			if bad, err := k.check(v); err != nil {
				return nil, &InvalidError{Value: bad, Reason: err}
			}
		}
		c.values = append(c.values, v)
	}
	return c, nil
}

func decide(k Key, from Sources, inFile map[string]entry) Value {
	if given, ok := from.Flags[k.Name]; ok {
		return k.value(given, Origin{FromFlag, k.Flag})
	}
	for _, name := range k.Env {
		// An empty variable counts as absent: `OARLOCK_OUTPUT= oarlock …` is how people unset one.
		if text, ok := from.Lookup(name); ok && text != "" {
			return k.value(k.split(text), Origin{FromEnv, name})
		}
	}
	if e, ok := inFile[k.Name]; ok {
		return k.value(e.items, Origin{FromFile, from.File.Path + ":" + strconv.Itoa(e.line)})
	}
	return Value{Key: k, Text: k.Default, Origin: Origin{Kind: FromDefault}}
}

// split takes apart what the environment gives.
func (k Key) split(text string) []string {
	switch {
	case k.Shape == Plain:
		return []string{text}
	case text == noItems:
		return []string{}
	}
	return strings.Split(text, ",")
}

func (k Key) value(given []string, origin Origin) Value {
	if k.Shape == Plain {
		return Value{Key: k, Text: given[len(given)-1], Origin: origin}
	}
	return Value{Key: k, Items: given, Origin: origin}
}

// check says which value is wrong, and why.
func (k Key) check(v Value) (bad Value, err error) {
	items := v.Items
	if k.Shape == Plain {
		items = []string{v.Text}
	}
	for _, item := range items {
		if err := k.checkOne(item); err != nil {
			return Value{Key: Key{Show: k.Show, Allowed: k.Allowed}, Text: item, Origin: v.Origin}, err
		}
	}
	return v, nil
}

func (k Key) checkOne(text string) error {
	if name, _, ok := strings.Cut(text, "="); k.Shape == Map && (!ok || name == "") {
		return errors.New("must be name=value")
	}
	if len(k.Allowed) > 0 && !slices.Contains(k.Allowed, text) {
		return fmt.Errorf("must be %s", OrList(k.Allowed))
	}
	if k.Check != nil {
		return k.Check(text)
	}
	return nil
}

// Warnings says which settings are given although they have no effect any more.
func (c *Config) Warnings() (warnings []string) {
	for _, v := range c.gone {
		warnings = append(warnings, fmt.Sprintf("%s: %s has no effect any more: %s", v.Origin.Where, v.Key.Name, v.Key.Gone))
	}
	return warnings
}

// Values lists every setting in the order of its declaration.
func (c *Config) Values() []Value { return slices.Clone(c.values) }

// Value returns one setting; asking for one that was not declared is a mistake of the program.
func (c *Config) Value(name string) Value {
	i := slices.IndexFunc(c.values, func(v Value) bool { return v.Key.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("config: setting %q was never declared", name))
	}
	return c.values[i]
}

// Text is the value of one plain setting.
func (c *Config) Text(name string) string { return c.Value(name).Text }
