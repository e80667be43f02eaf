package storetest

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var keyedPromises = []promise{
	{"a limit by key bounds the runs of each key, and gives each key its turn", keyedTurns},
	{"a limit by key counts what parks", keyedParked},
	{"a limit by key tells labels, numbers and texts apart as they are, not as they are written", keyedSpelling},
	{"a new definition of the key leaves alone the runs that wait", keyedAnew},
	{"what is retried waits for its key again", keyedRetry},
	{"what waited before a limit by key passes it, and what comes later does not", keyedLater},
	{"a limit by key that is gone holds back nothing", keyedGone},
	{"a child passes a limit against which its parent counts", keyedChild},
	{"a worker for one run keeps the limits by key", keyedOnly},
}

// perTenant returns a DAG with a limit by tenant.
func perTenant(limit int) string {
	return fmt.Sprintf("name: tenants\nparams: [{name: tenant, type: string, required: true}]\n"+
		"concurrency: {key: '${params.tenant}', limit: %d}\nsteps: [{id: a, action: approval}]\n", limit)
}

func (s *setup) enqueueFor(tenants ...string) (ids []queue.RunID) {
	s.Helper()
	for _, t := range tenants {
		ids = append(ids, s.enqueue(queue.Request{DAG: "tenants", Params: map[string]any{"tenant": t}}))
	}
	return ids
}

// claimable polls with plenty of slots, and returns the runs of the claims by their places in ids.
func (s *setup) claimable(w Session, ids []queue.RunID) (claims map[queue.RunID]*queue.Claim, got string) {
	s.Helper()
	s.look(w)
	claims = map[queue.RunID]*queue.Claim{}
	for _, c := range s.poll(w, queue.Want{Slots: 100, Free: 100}).Claims {
		claims[c.Run] = c
	}
	var places []string
	for i, id := range ids {
		if claims[id] != nil {
			places = append(places, fmt.Sprint(i))
		}
	}
	return claims, strings.Join(places, " ")
}

func (s *setup) wantClaimable(w Session, ids []queue.RunID, want string) map[queue.RunID]*queue.Claim {
	s.Helper()
	claims, got := s.claimable(w, ids)
	if got != want {
		s.Fatalf("claimed the runs %s, not %s", got, want)
	}
	return claims
}

func keyedTurns(s *setup) {
	s.put(perTenant(2))
	ids := s.enqueueFor("acme", "acme", "acme", "acme", "acme", "bolt", "coil", "coil")
	w := s.worker()
	first := map[string]int{}
	for _, c := range s.claim(w, 3) {
		first[string(c.Params)]++
	}
	if len(first) != 3 {
		s.Errorf("three claims are of %v, not of three tenants", first)
	}
	all := s.wantClaimable(s.worker(), ids, "1 7")
	s.wantClaimable(w, ids, "")
	other := s.worker(replacing(w))
	for _, c := range s.claim(other, 3) {
		s.must(other.Commit(s.Context(), finish(c, c.Inbox, s.now(other))))
	}
	s.wantClaimable(other, ids, "2")
	if len(all) != 2 {
		s.Errorf("the other worker has %d claims", len(all))
	}
}

func keyedParked(s *setup) {
	s.put(perTenant(1))
	ids := s.enqueueFor("acme", "acme", "bolt")
	w := s.worker()
	for _, c := range s.wantClaimable(w, ids, "0 2") {
		s.drive(w, c, Behaviour{})
	}
	s.wantClaimable(w, ids, "")
	s.ask(approve(ids[0], "a"))
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(ids[0], "succeeded")
	s.wantClaimable(w, ids, "1")
}

func keyedSpelling(s *setup) {
	s.put("name: tenants\nparams: [{name: tenant, type: string, required: true}, {name: api, type: integer, default: 7}]\nlabels: {region: eu}\n" +
		"concurrency: {key: '${params.tenant}/${params.api}/${labels.region}', limit: 1}\nsteps: [{id: a, run: \"true\"}]\n")
	ask := func(params map[string]any, region string) queue.RunID {
		return s.enqueue(queue.Request{DAG: "tenants", Params: params, Labels: map[string]string{"region": region}})
	}
	ids := []queue.RunID{
		ask(map[string]any{"tenant": "acme", "api": 7}, "eu"), ask(map[string]any{"tenant": "acme"}, "eu"), ask(map[string]any{"tenant": "acme", "api": "7"}, "eu"),
		ask(map[string]any{"tenant": "acme", "api": 8}, "eu"), ask(map[string]any{"tenant": "acme", "api": 7}, "us"), ask(map[string]any{"tenant": "", "api": 7}, "eu"),
	}
	s.wantClaimable(s.worker(), ids, "0 3 4 5")
}

func keyedAnew(s *setup) {
	s.put(perTenant(1))
	ids := s.enqueueFor("acme", "acme")
	w := s.worker()
	s.wantClaimable(w, ids, "0")
	s.put(strings.Replace(perTenant(1), "key: '${params.tenant}'", "key: 'by ${params.tenant}'", 1))
	ids = append(ids, s.enqueueFor("acme", "acme")...)
	s.wantClaimable(w, ids, "2")
}

func keyedRetry(s *setup) {
	s.put(strings.Replace(perTenant(1), "action: approval", `run: "true"`, 1))
	ids := s.enqueueFor("acme", "acme")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }})
	second := s.wantClaimable(w, ids, "1")
	s.ask(queue.Ask{Run: ids[0], Verb: dagrun.VerbRetry})
	s.wantClaimable(w, ids, "")
	s.drive(w, second[ids[1]], Behaviour{})
	if c := s.claimInTurns(w); c.Run != ids[0] { // a retry puts a run where polls may not begin any more
		s.Errorf("claimed %d, not %d", c.Run, ids[0])
	}
}

func keyedLater(s *setup) {
	plain := "name: tenants\nparams: [{name: tenant, type: string, required: true}]\nsteps: [{id: a, run: \"true\"}]\n"
	s.put(plain)
	ids := s.enqueueFor("acme", "acme")
	s.put(perTenant(1))
	ids = append(ids, s.enqueueFor("acme", "acme")...)
	s.wantClaimable(s.worker(), ids, "0 1 2")
}

func keyedGone(s *setup) {
	s.put(perTenant(1))
	ids := s.enqueueFor("acme", "acme", "acme")
	w := s.worker()
	s.wantClaimable(w, ids, "0")
	s.put("name: tenants\nparams: [{name: tenant, type: string, required: true}]\nsteps: [{id: a, run: \"true\"}]\n")
	s.wantClaimable(w, ids, "1 2")
}

func keyedChild(s *setup) {
	s.put("name: tenants\nparams: [{name: tenant, type: string, required: true}]\nconcurrency: {key: '${params.tenant}', limit: 1}\n" +
		"steps:\n  - {id: a, action: dag.run, with: {dag: tenants, params: {tenant: acme}}}\n")
	ids := s.enqueueFor("acme", "acme")
	w := s.worker()
	c := s.wantClaimable(w, ids, "0")[ids[0]]
	for i, tenant := range []string{"acme", "bolt"} {
		child, err := w.EnqueueChild(s.Context(), queue.Child{
			Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: i + 1, DAG: "tenants", Params: dagrun.JSON(`{"tenant": "` + tenant + `"}`),
		})
		s.must(err)
		ids = append(ids, child)
	}
	detached, err := w.EnqueueChild(s.Context(), queue.Child{
		Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 3, DAG: "tenants", Params: dagrun.JSON(`{"tenant": "acme"}`), Detached: true,
	})
	s.must(err)
	s.wantClaimable(w, append(ids, detached), "2 3")
}

func keyedOnly(s *setup) {
	s.put(perTenant(1))
	ids := s.enqueueFor("acme", "acme")
	s.wantClaimable(s.worker(), ids, "0")
	only := s.worker(func(w *queue.Worker) { w.Only = ids[1] })
	s.wantClaimable(only, ids, "")
}
