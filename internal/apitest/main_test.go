package apitest

import (
	"fmt"
	"os"
	"testing"
)

// TestMain changes to the folder whose documents and clients are tested.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../api"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
