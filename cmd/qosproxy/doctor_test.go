package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/doctor"
)

func TestTheDoctorSaysThatNobodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("cassandra: {contact_points: [\""+closed+"\"]}\ntables: [{name: a.b}]\n"), 0o600))
	args := []string{"doctor", "--config", file}

	out, err := execute(t, args...)
	require.ErrorIs(t, err, errWrong)
	assert.Contains(t, out, "problem  connection    no contact point answers: "+closed+": connection\n")
	assert.Contains(t, out, "\n         mend  correct cassandra.contact_points\n\n1 problem, 0 warnings, 0 notes, 0 ok\n")
	assert.Equal(t, command.ExitFailed, run(t.Context(), args))

	out, err = execute(t, append(args, "-o", "json")...)
	require.ErrorIs(t, err, errWrong)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, 1, report.Counts[doctor.Problem])
}
