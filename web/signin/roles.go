package signin

import (
	"slices"
	"strings"
)

// Person is somebody who has proved who they are.
type Person struct {
	Name   string
	Groups []string
}

// Role is what a person may do.
type Role string

// Roles of people, each of which may what the one before may. The zero value may nothing.
const (
	Reader    Role = "reader"    // sees everything
	Submitter Role = "submitter" // asks for runs, sees and steers those of the submitters' login
	Operator  Role = "operator"  // sees and steers everything
)

const (
	everybody   = "*"
	groupPrefix = "group:"
)

// Roles say who has which role: by name, by group as group:NAME, or everybody who proved who they are as *.
type Roles struct{ Reader, Submitter, Operator []string }

// Of returns the highest role of a person, "" for none. The zero Person has none.
func (r Roles) Of(p Person) Role {
	switch {
	case p.Name == "":
		return ""
	case isIn(r.Operator, p):
		return Operator
	case isIn(r.Submitter, p):
		return Submitter
	case isIn(r.Reader, p):
		return Reader
	}
	return ""
}

// isIn reports whether a list names a person. A person whose name looks like a group is none of them.
func isIn(list []string, p Person) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if group, ok := strings.CutPrefix(entry, groupPrefix); ok {
			return slices.Contains(p.Groups, group)
		}
		return entry == everybody || entry == p.Name
	})
}
