package dagspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sealed is a text with references to secrets that have not been read yet.
type sealed []piece

// piece is a literal, or the name of a secret.
type piece struct{ text, secret string }

// plain returns the text, or false if it refers to a secret.
func (s sealed) plain() (string, bool) {
	var b strings.Builder
	for _, p := range s {
		if p.secret != "" {
			return "", false
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

// reveal returns the text with the secrets filled in by name.
func (s sealed) reveal(values map[string]string) string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.text)
		b.WriteString(values[p.secret])
	}
	return b.String()
}

// shown returns the text with each secret written as the reference ${secrets.NAME}.
func (s sealed) shown() string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.text)
		if p.secret != "" {
			b.WriteString("${secrets." + p.secret + "}")
		}
	}
	return b.String()
}

// Reveal fills the secrets into r.Env and r.With in place, sets r.ShownURL, and returns the secrets that are variables of the body
// under their own names. values must hold every one of r.Secrets by name: a missing one becomes an empty text. The caller must not
// store anything that Reveal fills in.
func (r *Resolved) Reveal(values map[string]string) (variables map[string]string) {
	for name, text := range r.sealed {
		r.Env[name] = text.reveal(values)
	}
	for key, value := range r.With {
		if text, ok := value.(sealed); ok && key == "url" {
			r.ShownURL = text.shown()
		}
		r.With[key] = revealed(value, values)
	}
	variables = make(map[string]string, len(r.variables))
	for _, name := range r.variables {
		variables[name] = values[name]
	}
	return variables
}

func (r *Resolved) seal(variable string, text sealed) {
	if r.sealed == nil {
		r.sealed = map[string]sealed{}
	}
	r.sealed[variable] = text
}

// revealed returns a value with all sealed texts revealed, at any depth. It changes lists and maps in place.
func revealed(value any, values map[string]string) any {
	switch x := value.(type) {
	case sealed:
		return x.reveal(values)
	case []any:
		for i := range x {
			x[i] = revealed(x[i], values)
		}
	case map[string]any:
		for k := range x {
			x[k] = revealed(x[k], values)
		}
	}
	return value
}

// want fills in r.Secrets, the secrets that must be read before Reveal: secrets in texts, and secrets that are variables. It
// returns an error for a secret that is not declared.
func (r *Resolved) want(s *Step) error {
	found := map[string]bool{}
	for _, text := range r.sealed {
		text.names(found)
	}
	for _, value := range r.With {
		namesIn(value, found)
	}
	r.Declared = s.names.all
	if s.hasVariables() {
		r.variables = s.named()
	}
	for _, name := range r.variables {
		found[name] = true
	}
	for _, name := range sortedKeys(found) {
		secret, ok := s.names.secrets[name]
		if !ok {
			return fmt.Errorf("secret %s is not declared", name)
		}
		r.Secrets = append(r.Secrets, secret)
	}
	return nil
}

// names adds the names of the secrets in the text to found.
func (s sealed) names(found map[string]bool) {
	for _, p := range s {
		if p.secret != "" {
			found[p.secret] = true
		}
	}
}

// namesIn adds the names of the secrets in all sealed texts of a value to found.
func namesIn(value any, found map[string]bool) {
	switch x := value.(type) {
	case sealed:
		x.names(found)
	case []any:
		for _, item := range x {
			namesIn(item, found)
		}
	case map[string]any:
		for _, item := range x {
			namesIn(item, found)
		}
	}
}

// hasVariables reports whether the body gets variables: a command does, and so does a function of a program that embeds a worker. A
// built-in action does not.
func (s *Step) hasVariables() bool { return builtins[s.Action] == nil }

// named returns the names of the secrets that a step lists or declares under secrets:. For "all" these are all secrets that the DAG
// declares. The step must have come out of a Graph.
func (s *Step) named() []string {
	switch {
	case s.Secrets == nil:
		return nil
	case s.Secrets.All:
		var list []string
		for _, secret := range s.names.spec.Secrets {
			list = append(list, secret.Name)
		}
		return list
	}
	var list []string
	for _, secret := range s.Secrets.List {
		list = append(list, secret.Name)
	}
	return list
}

// AllSecrets returns the secrets that the DAG declares and the ones that its steps declare themselves, in no certain order. A name
// may be in it several times.
func (s *Spec) AllSecrets() []Secret {
	all := slices.Clone(s.Secrets)
	s.eachBody(func(b *Step) {
		if b.Secrets == nil {
			return
		}
		for _, secret := range b.Secrets.List {
			if secret.From != "" {
				all = append(all, secret)
			}
		}
	})
	return all
}

// eachBody calls visit for every step and handler, and for their publishes and replacements.
func (s *Spec) eachBody(visit func(*Step)) {
	for i := range s.Steps {
		s.Steps[i].eachBody(visit)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.eachBody(visit)
	}
}

func (s *Step) eachBody(visit func(*Step)) {
	visit(s)
	if s.Publish != nil {
		s.Publish.eachBody(visit)
	}
	for _, rule := range s.OnError {
		for _, body := range rule.bodies() {
			body.eachBody(visit)
		}
	}
}

// environment fills out.Env with the variables of the DAG and the step, and keeps variables that hold secrets sealed for Reveal. A
// variable of the DAG sees only inherited ones, and a variable of the step sees these and the DAG's. It leaves out a variable of
// the DAG that the step has too. If the body gets no variables, it also leaves out variables that hold secrets.
func (v *view) environment(s *Step, out *Resolved) error {
	out.Env = map[string]string{}
	for level := 1; level <= 2; level++ {
		below := *v
		below.level, below.open = level-1, true
		layer := maps.Clone(v.layer(level))
		if level == 1 {
			maps.DeleteFunc(layer, func(name, _ string) bool { _, again := v.layer(2)[name]; return again })
		}
		for _, name := range sortedKeys(layer) {
			text, err := below.pieces("env."+name, layer[name])
			if err != nil {
				return err
			}
			if plain, ok := text.plain(); ok {
				out.Env[name] = plain
			} else if s.hasVariables() {
				out.seal(name, text)
			}
		}
	}
	return nil
}
