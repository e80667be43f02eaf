// Package notify tells systemd how a worker is: ready, what it is at, alive, stopping (see sd_notify(3)).
//
// Under a guard the driver process does so, which is not the main process of the unit:
//
//	[Service]
//	Type=notify
//	NotifyAccess=all
//	WatchdogSec=60
//	ExecStart=/usr/local/bin/oarlock worker
//
// WatchdogSec is to be longer than a guard may take to replace a driver process that died, 20 s: nobody notifies
// meanwhile. The watchdog is fed as long as health.Alive finds nothing, so it fires for loops that are stuck, not for a
// database that is away.
package notify
