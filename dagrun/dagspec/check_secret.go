package dagspec

import (
	"maps"
	"slices"
	"strings"
)

// allSecrets is the word with which a step takes every secret of the DAG.
const allSecrets = "all"

// ownPrefix begins the names of the variables that Oarlock sets for every task.
const ownPrefix = "OARLOCK_"

// secrets reports mistakes in the secrets that the DAG declares: a name that two secrets have, and the mistakes that secret finds
// in each.
func (c *checker) secrets() {
	seen := map[string]pos{}
	nodes := slices.Collect(c.root.get("secrets").list())
	for i, s := range c.spec.Secrets {
		if !c.twice(seen, s.Name, nodes[i].get("name"), "secret") {
			c.secret(s, nodes[i])
		}
	}
}

// secret reports mistakes in one declaration: a name that Oarlock uses itself, a relative path of a file, and a key that a command
// would take for an option.
func (c *checker) secret(s Secret, n *node) {
	if name := n.get("name"); strings.HasPrefix(s.Name, ownPrefix) {
		c.add(name.pos(), "choose another name", "%s: variables that begin with %s are set for every task", s.Name, ownPrefix)
	}
	key := n.get("key")
	switch {
	case key == nil:
	case s.From == "file" && !strings.HasPrefix(s.Key, "/"):
		c.add(key.pos(), "write the whole path, from /", "the file of secret %q is a relative path", s.Name)
	case s.From == "command" && strings.HasPrefix(s.Key, "-"):
		c.add(key.pos(), "the worker's secrets_command gets the key as an argument, and would read the key as an option", "the key of secret %q begins with a dash", s.Name)
	}
}

// stepSecrets checks the secrets that a step lists or declares. It reports each that is unknown, declared wrongly, listed twice, or
// named like a variable of env. Of the built-in actions only http.request takes secrets.
func (c *checker) stepSecrets(s *Step, n *node, known *names) {
	at := n.get("secrets")
	if at == nil || s.Secrets == nil {
		return
	}
	if b := builtins[s.Action]; b != nil && s.Action != "http.request" {
		key, _ := n.find("secrets")
		c.add(key.pos(), "remove it", "%s takes no secrets", s.Action)
		return
	}
	if s.Secrets.All {
		for _, secret := range c.spec.Secrets {
			c.given(secret.Name, at, known)
		}
		return
	}
	seen := map[string]pos{}
	nodes := slices.Collect(at.list())
	for i, secret := range s.Secrets.List {
		c.stepSecret(secret, nodes[i], seen, known)
	}
}

func (c *checker) stepSecret(secret Secret, n *node, seen map[string]pos, known *names) {
	name := n
	if n.kind == kindMap {
		name = n.get("name")
	}
	if c.twice(seen, secret.Name, name, "secret") {
		return
	}
	if n.kind != kindMap {
		if _, p := known.checkSecret(ref{path: []string{"secrets", secret.Name}, part: secret.Name}); p != nil {
			c.problem(n, *p)
			return
		}
	} else {
		c.secret(secret, n)
		if slices.ContainsFunc(c.spec.Secrets, func(s Secret) bool { return s.Name == secret.Name }) && name != nil {
			c.add(name.pos(), "write only the name of the DAG's secret, or give this secret another name", "the DAG has a secret %q", secret.Name)
		}
	}
	c.given(secret.Name, name, known)
}

// given notes that a body gets a secret as a variable, and reports a variable in env of the step or DAG with the same name. at is
// the node with the secret; if it is nil, nothing is reported.
func (c *checker) given(name string, at *node, known *names) {
	c.asked[name] = true
	_, ofStep := known.env[name]
	if _, ofDAG := c.spec.Env[name]; at != nil && (ofStep || ofDAG) {
		c.add(at.pos(), "remove one of the two, or give one of the two another name", "secret %q and a variable of env have the same name", name)
	}
}

// unasked reports each secret of the DAG that no body and no text uses. It comes last, and reports nothing if there are other
// mistakes, because those may be the cause.
func (c *checker) unasked() {
	if c.failed() {
		return
	}
	nodes := slices.Collect(c.root.get("secrets").list())
	for i, s := range c.spec.Secrets {
		if !c.asked[s.Name] {
			c.add(nodes[i].get("name").pos(), "write the secret into the steps that need the secret: secrets: ["+s.Name+"], or env: {NAME: '${secrets."+s.Name+"}'}; secrets: all gives a step all secrets",
				"no step gets the secret %q", s.Name)
		}
	}
}

// declareSecrets adds the secrets that a step declares itself to n.secrets. It changes a copy, because other steps share the map. s
// may be nil.
func (n *names) declareSecrets(s *StepSecrets) {
	if s == nil {
		return
	}
	cloned := false
	for _, secret := range s.List {
		if secret.From == "" {
			continue
		}
		if !cloned {
			n.secrets, cloned = maps.Clone(n.secrets), true
		}
		n.secrets[secret.Name] = secret
	}
}

// checkSecret returns the type of a reference to a secret, or the mistake in it: the secret is not declared, or the reference is
// not of the form secrets.name.
func (n *names) checkSecret(f ref) (valueType, *problem) {
	if len(f.path) != 2 {
		return 0, f.wrong("write secrets.name", "secrets needs the name of a secret")
	}
	_, ok := n.secrets[f.path[1]]
	switch {
	case ok || n.vague.secrets:
		return typeString, nil
	case len(n.secrets) == 0:
		return 0, f.wrong("declare the secret: secrets: [{name: "+f.path[1]+", from: env, key: …}]", "unknown secret %q", f.path[1])
	}
	return 0, f.wrong(knownHint(f.path[1], sortedKeys(n.secrets), "add this secret to secrets:"), "unknown secret %q", f.path[1])
}

// secretHere returns the type of a reference to a secret, or the mistake in it, by checkSecret. In a text that must not hold
// secrets every such reference is a mistake, because other users could read the secret there.
func (n *names) secretHere(f ref) (valueType, *problem) {
	switch {
	case n.secret:
		return n.checkSecret(f)
	case n.field == computes:
		return 0, f.wrong(besideSecret, "an expression cannot read a secret")
	case n.field == "args":
		return 0, f.wrong("write env: {NAME: '${"+f.String()+"}'} and let the program read this variable", "every user of the host could read a secret in args")
	}
	return 0, f.wrong(secretPlaces, "a secret must not be here")
}

// checkVariable returns the type of a reference to a variable, or the mistake in it: a variable that holds a secret must not go
// into a text that must not hold secrets. A variable need not be known.
func (n *names) checkVariable(f ref) (valueType, *problem) {
	if len(f.path) != 2 {
		return 0, f.wrong("write env.NAME", "env needs the name of a variable")
	}
	if n.field == computes && n.holdsSecret(f.path[1]) {
		return 0, f.wrong(besideSecret, "env.%s holds a secret, which an expression cannot read", f.path[1])
	}
	if !n.secret && n.holdsSecret(f.path[1]) {
		return 0, f.wrong(secretPlaces, "env.%s holds a secret, which must not be here", f.path[1])
	}
	return typeAny, nil
}

// isSource reports whether the DAG or a step reads a secret from the worker's variable with this name. No text may refer to such a
// variable.
func (n *names) isSource(variable string) bool {
	return slices.ContainsFunc(n.all, func(s Secret) bool { return s.From == "env" && s.Key == variable })
}

const besideSecret = "write the secret as a reference of its own, beside the computed value: ${secrets.NAME}"

const secretPlaces = "secrets go into env, and into with.url, with.headers and with.body of http.request: the program reads the variable"

// holdsSecret reports whether a variable of the step, or else of the DAG, refers to a secret, directly or by a variable of the DAG.
// In env of the DAG itself it returns false, because that sees only inherited variables, which hold no secrets.
func (n *names) holdsSecret(name string) bool {
	if n.place == inDAG {
		return false // env of the DAG sees only inherited variables, which hold no secrets
	}
	if text, ok := n.env[name]; ok {
		return refersToSecret(text, n.spec.Env)
	}
	return refersToSecret(n.spec.Env[name], nil)
}

// refersToSecret reports whether a text refers to a secret, or to a variable in below with a text that does.
func refersToSecret(text string, below map[string]string) bool {
	t, _ := parseTemplate(text)
	return slices.ContainsFunc(t.refs(), func(f ref) bool {
		if f.root() == "env" && len(f.path) == 2 {
			return refersToSecret(below[f.path[1]], nil)
		}
		return f.root() == "secrets"
	})
}
