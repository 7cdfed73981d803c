// Package simulate asks "what if": it drives the shipped planner, executor and
// hedging over simulated rings and servers, in virtual time, and says what came
// of it as a report. Clusters of a hundred nodes that pause and limp fit into a
// test so.
package simulate
