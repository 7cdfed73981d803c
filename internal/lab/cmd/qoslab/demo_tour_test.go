package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/config"
)

// TestTheTourWaitsForNodesToGetWarm uses nodes that are slow and fail now and then, as after a
// boot.
func TestTheTourWaitsForNodesToGetWarm(t *testing.T) {
	late := errors.New("late")
	always := func(int) bool { return true }
	for name, tt := range map[string]struct {
		late    func(lookup int) bool
		usual   time.Duration
		takes   time.Duration
		wantErr error
	}{
		"warm":                    {nil, 5 * time.Millisecond, 25 * time.Millisecond, nil},
		"slow for good":           {nil, 20 * time.Millisecond, warmUpPatience, nil},
		"one late after many":     {func(n int) bool { return n == 150 }, 20 * time.Millisecond, warmUpPatience, nil},
		"one late at the end":     {func(n int) bool { return n == 248 }, 20 * time.Millisecond, warmUpPatience, nil},
		"late for a while":        {func(n int) bool { return n < 80 }, 5 * time.Millisecond, 14 * time.Second, nil},
		"every other one, 9 s":    {func(n int) bool { return n < 100 && n%2 == 0 }, 5 * time.Millisecond, 9 * time.Second, nil},
		"nothing ever is in time": {always, 5 * time.Millisecond, warmUpMost, late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				begin := time.Now()
				err := warmUp(t.Context(), func() (time.Duration, error) {
					n++
					if tt.late != nil && tt.late(n-1) {
						time.Sleep(125 * time.Millisecond)
						return 0, late
					}
					time.Sleep(tt.usual)
					return tt.usual, nil
				})
				assert.ErrorIs(t, err, tt.wantErr)
				assert.InDelta(t, tt.takes.Seconds(), time.Since(begin).Seconds(), 0.3)
			})
		})
	}
}

// TestTheTourShowsCommandsWithTheirOutput uses a program that prints its arguments.
func TestTheTourShowsCommandsWithTheirOutput(t *testing.T) {
	echo, err := exec.LookPath("echo")
	require.NoError(t, err)
	var out strings.Builder
	tour := &demoTour{out: &out, binary: echo}
	require.NoError(t, tour.try(t.Context(), "ring", "shop"))
	assert.Equal(t, "\n$ qosproxy ring shop\nring shop\n", out.String())

	tour.binary = echo + "-none"
	require.ErrorContains(t, tour.try(t.Context(), "ring"), "qosproxy ring")
}

func TestTheTourTakesNoErrorForAnAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no table shop.nothing", http.StatusNotFound)
	}))
	defer server.Close()
	cfg := &config.Config{}
	cfg.Listen.HTTP = strings.TrimPrefix(server.URL, "http://")
	_, err := (&demoTour{cfg: cfg}).post(t.Context(), "/v1/shop/nothing:batchGet", nil)
	require.ErrorContains(t, err, "POST /v1/shop/nothing:batchGet: 404 Not Found: no table shop.nothing")
}
