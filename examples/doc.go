// Package examples holds DAG files that each teach one thing; its tests parse, compile and draw all of them.
package examples
