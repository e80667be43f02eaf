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

// Shapes of settings: how each place writes their values.
const (
	Plain Shape = iota // one value
	List               // any number: a sequence in the file, a,b in the environment, a repeated flag
	Map                // values by name: a mapping in the file, name=value in flags and variables
)

// noItems is the text of a variable that sets a list or a map to empty. An empty variable counts as absent.
const noItems = "[]"

// Key declares one setting.
type Key struct {
	Shape   Shape
	Name    string                    // as the file writes it: log_level
	Flag    string                    // as the user types it: --log-level
	Env     []string                  // variables in order of precedence: OARLOCK_LOG_LEVEL
	Default string                    // the value when no source sets one
	Implied []string                  // for display: the values in force when no source sets one, for lists and for defaults that are computed later
	Usage   string                    // one sentence for people
	Allowed []string                  // the values that are allowed; empty: any that Check accepts
	Check   func(string) error        // checks each value; nil: any value is allowed. The error says what is wrong with the value
	Show    func(value string) string // how a value is printed; nil: unchanged
	Gone    string                    // for a setting without effect: what holds in its place; empty: the setting has an effect
}

// Kind names a place a value can come from.
type Kind string

// The places of values, strongest first.
const (
	FromFlag    Kind = "flag"
	FromEnv     Kind = "env"
	FromFile    Kind = "file"
	FromDefault Kind = "default"
)

// Origin is the place that a value came from. Where is the flag, the variable or path:line; it is empty for a default.
type Origin struct {
	Kind  Kind
	Where string
}

// Value is a setting after Load has chosen its source.
type Value struct {
	Key    Key
	Text   string   // the value of a Plain setting
	Items  []string // the values of a List, or the name=value pairs of a Map; nil: no source sets the setting
	Origin Origin
}

// Pairs returns the values of a Map setting by name. It returns an empty map if there are none.
func (v Value) Pairs() map[string]string {
	pairs := make(map[string]string, len(v.Items))
	for _, item := range v.Items {
		name, value, _ := strings.Cut(item, "=")
		pairs[name] = value
	}
	return pairs
}

// Shown returns the value as it may be printed, with the values of a list or map joined by commas. The Show of the key removes
// secrets. For a default it shows the Implied values of the key, if there are any.
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

// Sources are the places in which Load looks for values.
type Sources struct {
	Flags  map[string][]string         // by key name; only the flags that the user typed
	Lookup func(string) (string, bool) // reads an environment variable
	File   *File                       // nil: there is no settings file
}

// Config holds every declared setting.
type Config struct {
	Path   string // path of the settings file; empty: no file was read
	values []Value
	gone   []Value
}

// Load decides the value of every key. It returns FileErrors with all problems of the file, or else an *InvalidError for the first
// bad flag (Kind FromFlag) or variable (Kind FromEnv). It does not check defaults.
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
		// An empty variable counts as absent: users unset a variable for one command with `OARLOCK_OUTPUT= oarlock …`.
		if text, ok := from.Lookup(name); ok && text != "" {
			return k.value(k.split(text), Origin{FromEnv, name})
		}
	}
	if e, ok := inFile[k.Name]; ok {
		return k.value(e.items, Origin{FromFile, from.File.Path + ":" + strconv.Itoa(e.line)})
	}
	return Value{Key: k, Text: k.Default, Origin: Origin{Kind: FromDefault}}
}

// split returns the values in the text of a variable: the text itself for a Plain setting, no values for noItems, otherwise the
// parts between commas.
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

// check returns v and nil if the key allows all its values. Otherwise it returns the first value that is not allowed, as a Plain
// value of its own, and the reason.
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

// Warnings returns a text for each setting that a source sets although it has no effect any more.
func (c *Config) Warnings() (warnings []string) {
	for _, v := range c.gone {
		warnings = append(warnings, fmt.Sprintf("%s: %s has no effect any more: %s", v.Origin.Where, v.Key.Name, v.Key.Gone))
	}
	return warnings
}

// Values returns all settings in the order of their declaration.
func (c *Config) Values() []Value { return slices.Clone(c.values) }

// Value returns one setting. It panics for a name that the program did not declare.
func (c *Config) Value(name string) Value {
	i := slices.IndexFunc(c.values, func(v Value) bool { return v.Key.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("config: setting %q was never declared", name))
	}
	return c.values[i]
}

// Text returns the value of a Plain setting, and "" for a List or a Map. It panics for a name that the program did not declare.
func (c *Config) Text(name string) string { return c.Value(name).Text }
