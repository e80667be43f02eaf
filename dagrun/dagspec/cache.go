package dagspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// cacheKey is the key of a step's cached results: the key that the file gives, after a digest of the step's body. Because of
// the digest, a step that was edited does not find the outputs of its former version.
type cacheKey struct {
	*expression
	body string
}

func (k cacheKey) Text(scope dagrun.Scope) (string, error) {
	key, err := k.expression.Text(scope)
	if err != nil {
		return "", err
	}
	return k.body + " " + key, nil
}

// digest returns a hash of the step's body, with everything that the body inherits. It leaves out when the step runs, how
// often it is tried and how long it may take.
func (s *Step) digest(env map[string]string) string {
	text, err := json.Marshal(struct { //nolint:musttag // for a digest: no program reads it back
		Run, Command, Action string
		Args, Shell          []string
		With                 map[string]any
		Stdin                *Stdin
		Secrets              *StepSecrets
		Env                  map[string]string
		WorkingDir           string
		Outputs              []Output
		Publish              *Step
		Foreach              *Foreach
		SkipExit             []int
	}{
		s.Run, s.Command, s.Action, s.Args, s.Shell, s.With, s.Stdin, s.Secrets, merged(env, s.Env), s.WorkingDir, s.Outputs, s.Publish, s.Foreach, s.SkipExitCode,
	})
	if err != nil {
		panic(fmt.Sprintf("dagspec: a step that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
