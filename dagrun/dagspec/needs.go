package dagspec

import (
	"slices"
	"strings"
)

// Needs returns the features that workers must have to execute the DAG, sorted and without duplicates. A DAG with a need
// that no worker serves is refused when it is put: otherwise a run would execute only in part. The needs there are:
//
//	process        a step has run or command
//	action:NAME    a step has this action, built-in or a registered Go function (noop, wait, approval included)
//	publish        a step has publish
//	cache          a step has cache
//	pool           a step or publish names a pool
//	secrets:env      a secret comes from the environment of the worker
//	secrets:file     a secret comes from a file on the worker
//	secrets:command  a secret comes from a program that the worker is configured with
//
// Every worker of any version executes everything else in a DAG file.
func (s *Spec) Needs() []string {
	found := map[string]bool{}
	for i := range s.Steps {
		s.Steps[i].needs(found)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.needs(found)
	}
	for _, secret := range s.AllSecrets() {
		found["secrets:"+secret.From] = true
	}
	return slices.Clip(sortedKeys(found))
}

func (s *Step) needs(found map[string]bool) {
	if s.Run != "" || s.Command != "" {
		found["process"] = true
	}
	if s.Action != "" {
		found["action:"+s.Action] = true
	}
	if value(s.Pool) != "" {
		found["pool"] = true
	}
	if s.Cache != nil {
		found["cache"] = true
	}
	if s.Publish != nil {
		found["publish"] = true
		s.Publish.needs(found)
	}
	for _, rule := range s.OnError {
		for i := range rule.With {
			rule.With[i].needs(found)
		}
	}
}

// Starts returns the names of the DAGs that the DAG starts by dag.run and dag.enqueue, sorted and without duplicates. It
// leaves out a name with references, because only a run can fill it in.
func (s *Spec) Starts() []string {
	found := map[string]bool{}
	for i := range s.Steps {
		s.Steps[i].starts(found)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.starts(found)
	}
	return slices.Clip(sortedKeys(found))
}

func (s *Step) starts(found map[string]bool) {
	name, _ := s.With["dag"].(string)
	if (s.Action == "dag.run" || s.Action == "dag.enqueue") && name != "" && !strings.Contains(name, "${") {
		found[name] = true
	}
	if s.Publish != nil {
		s.Publish.starts(found)
	}
	for _, rule := range s.OnError {
		for i := range rule.With {
			rule.With[i].starts(found)
		}
	}
}

// WidestStep returns how many slots a worker needs to run every step.
func (s *Spec) WidestStep() int {
	widest := 1
	for i := range s.Steps {
		widest = max(widest, s.Steps[i].widest())
	}
	for _, h := range s.HandlerOn.all() {
		widest = max(widest, h.step.widest())
	}
	return widest
}

func (s *Step) widest() int {
	widest := s.Slots
	if s.Publish != nil {
		widest = max(widest, s.Publish.widest())
	}
	for _, rule := range s.OnError {
		for i := range rule.With {
			widest = max(widest, rule.With[i].widest())
		}
	}
	return widest
}
