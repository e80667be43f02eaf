package config

import (
	"fmt"
	"slices"
	"strconv"
)

// Key declares one setting.
type Key struct {
	Name    string                    // as in the file: log_level
	Flag    string                    // as the user types it: --log-level
	Env     []string                  // variables in order of precedence: OARLOCK_LOG_LEVEL
	Default string                    // the value when nobody gives one
	Usage   string                    // one sentence for people
	Allowed []string                  // the values it may have; empty means any that Check accepts
	Check   func(string) error        // optional; the error says what is wrong with the value
	Show    func(value string) string // how a value is printed; nil means as it is
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
	Text   string
	Origin Origin
}

// Shown is the value as it may be printed, with secrets taken out.
func (v Value) Shown() string {
	if v.Key.Show == nil {
		return v.Text
	}
	return v.Key.Show(v.Text)
}

// Sources are the places Load looks in.
type Sources struct {
	Flags  map[string]string           // by key name; only flags that were given
	Lookup func(string) (string, bool) // the environment
	File   *File                       // nil when there is none
}

// Config holds every declared setting.
type Config struct {
	Path   string // of the file that was read; empty when there was none
	values []Value
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
		if err := k.check(v.Text); err != nil && v.Origin.Kind != FromDefault {
			return nil, &InvalidError{Value: v, Reason: err}
		}
		c.values = append(c.values, v)
	}
	return c, nil
}

func decide(k Key, from Sources, inFile map[string]entry) Value {
	if text, ok := from.Flags[k.Name]; ok {
		return Value{k, text, Origin{FromFlag, k.Flag}}
	}
	for _, name := range k.Env {
		// An empty variable counts as absent: `OARLOCK_OUTPUT= oarlock …` is how people unset one.
		if text, ok := from.Lookup(name); ok && text != "" {
			return Value{k, text, Origin{FromEnv, name}}
		}
	}
	if e, ok := inFile[k.Name]; ok {
		return Value{k, e.text, Origin{FromFile, from.File.Path + ":" + strconv.Itoa(e.line)}}
	}
	return Value{k, k.Default, Origin{Kind: FromDefault}}
}

func (k Key) check(text string) error {
	if len(k.Allowed) > 0 && !slices.Contains(k.Allowed, text) {
		return fmt.Errorf("must be %s", OrList(k.Allowed))
	}
	if k.Check != nil {
		return k.Check(text)
	}
	return nil
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

// Text is the value of one setting.
func (c *Config) Text(name string) string { return c.Value(name).Text }
