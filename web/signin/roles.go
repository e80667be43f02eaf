package signin

import (
	"slices"
	"strings"
)

// Person is a user that has signed in.
type Person struct {
	Name   string
	Groups []string
}

// Role says what a person may do.
type Role string

// Each role includes the rights of the roles before it. The zero Role has no rights.
const (
	Reader    Role = "reader"    // sees everything
	Submitter Role = "submitter" // enqueues runs; sees and steers the runs of the submitters' login
	Operator  Role = "operator"  // sees and steers everything
)

const (
	everybody   = "*"
	groupPrefix = "group:"
)

// Roles are the members of each role: names, groups as group:NAME, and * for every signed-in person.
type Roles struct{ Reader, Submitter, Operator []string }

// Of returns the highest role of a person; "" if the person has none, or has no name.
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

// isIn reports whether an entry of a list matches a person: by name, by group as group:NAME, or as *. An entry group:NAME never
// matches a person's name, even if the name looks like it.
func isIn(list []string, p Person) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if group, ok := strings.CutPrefix(entry, groupPrefix); ok {
			return slices.Contains(p.Groups, group)
		}
		return entry == everybody || entry == p.Name
	})
}
