package archtest

import (
	"path"
	"slices"
	"strings"
)

var (
	// emptyNames say nothing about what is inside.
	emptyNames = strings.Fields("util utils common helper helpers misc models types base shared")
	// otherWords stand for things that have another name here, see the words in ARCHITECTURE.md.
	otherWords = strings.Fields("job jobs node nodes workflow workflows master manager managers")
)

func checkNames(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		for _, name := range []string{path.Base(f.Dir), strings.TrimSuffix(f.Name.Name, "_test")} {
			if slices.Contains(emptyNames, name) || slices.Contains(otherWords, name) {
				found = append(found, t.at(f.Package, "no package is named %s: name it after what it does, in the words of ARCHITECTURE.md", name))
			}
		}
		if name := strings.TrimSuffix(path.Base(f.Path), ".go"); slices.Contains(emptyNames, name) {
			found = append(found, t.at(f.Package, "no file is named %s: name it after its main type", name))
		}
	}
	return found
}
