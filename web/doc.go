// Package web serves pages about runs to browsers: the list of runs, each run with its steps and their logs, and the approvals
// that wait.
//
// Handler is given a store, and its pages show and do what the login of that store may. The caller serves it on an address that
// only this machine reaches, because nobody signs in. NewSite is for other machines: people prove who they are, and the pages
// of the login that is theirs, or acts for their role, answer them. What changes anything is a form, which acts once; GET only
// reads. A request must name a loopback host, or one of Options.Hosts, so that no other site's page reads it under a name of its own.
//
// Pages are rendered on the server from the folder template, and complete without JavaScript. The script adds local times,
// keys, copy buttons and live updates. A part of a page that live updates replace is a region: a template named PAGE#REGION,
// which Handler's pages and its streams render from the same data. No template and no asset has inline scripts or styles,
// since Content-Security-Policy forbids them; what is drawn is placed by attributes of SVG.
//
// A stream tells a browser what changed of its page. However many look at the same page, a hub reads it once for all of them,
// when there is news of the run, and stops with the last. A handler keeps nothing else but a look at the cluster, for two
// seconds, and versions of DAGs, which never change. It may be called from many goroutines at once. It never knows how runs are
// executed, nor what a statement says: it asks package queue.
package web
