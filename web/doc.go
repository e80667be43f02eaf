// Package web serves pages to browsers: about runs with their steps and logs, approvals, DAGs, schedules, queues and workers. It
// serves the same as JSON to programs.
//
// The pages of Handler show and do what the login of its store may. The caller serves them on an address that only this machine
// reaches, because there is no sign-in. NewSite is for other machines: users sign in, and the pages of the user's own login, or
// of the login of the user's role, answer them. Every change is a form, which acts once; GET only reads. A request must name a
// loopback host, or one of Options.Hosts, so that a page of another site cannot read ours under a host name of that site.
//
// Pages are rendered on the server from the folder template, and complete without JavaScript. The script adds local times,
// keys, copy buttons and live updates. A part of a page that live updates replace is a region: a template named PAGE#REGION,
// which Handler's pages and its streams render from the same data. No template and no asset has inline scripts or styles,
// since Content-Security-Policy forbids them; drawings are placed by attributes of SVG.
//
// A stream sends the browser the changed parts of its page. A hub reads the page once for all its viewers, when there is news of
// the run, and stops when the last viewer leaves. Beside streams, a handler keeps a look at the cluster for two seconds, and
// versions of DAGs, which never change. It is safe for concurrent use. It does not know how runs are executed, and contains no
// SQL: it calls package queue.
package web
