// Package graphview draws a graph of steps: as text for a terminal, as DOT, as Mermaid and as SVG.
//
// A View is plain data. FromGraph makes one of a compiled graph, FromSpec of a parsed file, and View.With adds the states of
// a run. Text, DOT, Mermaid and SVG are pure functions of a View: the same View gives the same bytes. Any View gives a
// drawing, even with a cycle or an edge to nowhere, and ids and labels are escaped for the output format. Work is limited: a
// graph that is too large for a drawing is folded or becomes a list, so 10,000 nodes take next to no time.
//
// Text and SVG share one layout: longest-path layers, long edges bent in every layer that they pass, order by barycenters,
// and coordinates by isotonic regression, which gives the best places that keep order and distance.
//
// The package knows nothing of terminals, files, databases or time.
package graphview
