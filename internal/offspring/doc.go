// Package offspring tells the children that this process started from orphans that it adopted.
//
// A process that is a child subreaper becomes the parent of every descendant that is orphaned. Adopt makes this process one, and
// reaps its orphans when they end. It must not reap the children that other code of this process waits for. So once Adopt may have
// been called, all such code starts its children by Start, and calls Reaped after it has waited for them.
//
// Which children a process has is one fact of the process, so this is a package of functions without an object. They are safe for
// concurrent use. The package logs nothing, and does not know why a process was started.
package offspring
