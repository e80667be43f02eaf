package cli

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	toSubmit  = "oarlock_submit"
	toRead    = "oarlock_read"
	toWork    = "oarlock_worker"
	toApprove = "oarlock_approve"
	toAdmin   = "oarlock_admin"
)

// commandRoles is the role with which a login may use all of a command. Commands that are missing here need no role, or
// name the role they need themselves: migrate, worker, run, exec and dev.
var commandRoles = map[string]string{
	"enqueue": toSubmit, "list": toSubmit, "status": toSubmit, "cancel": toSubmit, "pause": toSubmit, "resume": toSubmit,
	"retry": toSubmit, "mark": toSubmit, "web": toSubmit,
	"schedules": toSubmit, "schedules show": toSubmit, "schedules next": toSubmit, "schedules fires": toSubmit, "schedules pause": toSubmit,
	"schedules resume": toSubmit, "schedules trigger": toSubmit, "schedules put": toSubmit, "schedules rm": toSubmit,
	"backfill": toSubmit, "backfill list": toSubmit, "backfill pause": toSubmit, "backfill resume": toSubmit, "backfill cancel": toSubmit,

	"approvals": toApprove, "approve": toApprove, "reject": toApprove,

	"logs": toRead, "events": toRead, "top": toRead, "stats": toRead, "workers": toRead, "queues": toRead, "dag list": toRead, "dag show": toRead,
	"dag graph": toRead, "dag versions": toRead, dryPrune: toRead,

	"dag apply": toAdmin, "dag pause": toAdmin, "dag resume": toAdmin, "dag rm": toAdmin, "dag retire": toAdmin, "queues pause": toAdmin,
	"queues resume": toAdmin, "queues set": toAdmin, "workers drain": toAdmin, "prune": toAdmin,
}

// steers are the commands that control a run. A user with toSubmit may control its own runs, a user with toAdmin any run.
var steers = map[string]bool{
	"cancel": true, "pause": true, "resume": true, "retry": true, "mark": true,
}

// dryPrune is `oarlock prune --dry-run`, which only counts.
const dryPrune = "prune --dry-run"

func grantHint(role string) string { return "have an administrator grant " + role + " to this user" }

// needRole sets the hint of a problem that is about missing privileges: the role that the command needs.
func (p *problem) needRole(command string, err error) {
	name := strings.TrimPrefix(command, program+" ")
	role, known := commandRoles[name]
	server, said := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if known && said && !connecting && !errors.Is(err, queue.ErrNoGrants) && server.Code == "42501" {
		p.hint = grantHint(role)
		if steers[name] {
			p.hint += " for its own runs, or " + toAdmin + " for any"
		}
	}
}
