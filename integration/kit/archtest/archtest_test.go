package archtest

import (
	"os"
	"testing"
)

func TestModule_KeepsEveryRule(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range rule.Run(tree) {
				t.Errorf("%v\n\t(%s)", f, rule.Says)
			}
		})
	}
}
