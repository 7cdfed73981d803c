// Package simulate answers "what if" questions. It drives the shipped planner, executor and hedging
// over simulated rings and servers in virtual time, and reports the outcome. So a cluster of a
// hundred nodes that pause and slow down fits into a test.
package simulate
