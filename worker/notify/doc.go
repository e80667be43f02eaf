// Package notify tells systemd the state of a worker: ready, status, alive, stopping (see sd_notify(3)).
//
// Under a guard the driver process does this, which is not the main process of the unit:
//
//	[Service]
//	Type=notify
//	NotifyAccess=all
//	WatchdogSec=60
//	ExecStart=/usr/local/bin/oarlock worker
//
// WatchdogSec must be longer than a guard may take to replace a driver process that died, 20 s, because no notifications are sent
// meanwhile. The watchdog is fed as long as health.Alive returns nil. So it fires when a loop is stuck, but not when the database
// is away.
package notify
