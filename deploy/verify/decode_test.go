package verify

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// decode reads manifests as an API server with fieldValidation=Strict does: an
// unknown, misspelt or repeated field is an error.
func decode(t *testing.T, manifests []byte) ([]runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		require.NoError(t, err)
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// only returns the one object of its type.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	found := all[T](objects)
	require.Len(t, found, 1)
	return found[0]
}

// all returns the objects of one type.
func all[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, o := range objects {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

func TestDecodingIsStrict(t *testing.T) {
	for name, manifest := range map[string]string{
		"unknown field":  "{apiVersion: v1, kind: Pod, spec: {container: []}}",
		"field's case":   "{apiVersion: v1, kind: Pod, spec: {initcontainers: []}}",
		"repeated field": "apiVersion: v1\nkind: Pod\nkind: Pod\n",
		"wrong type":     "{apiVersion: v1, kind: Pod, spec: {containers: [{name: 1}]}}",
		"unknown kind":   "{apiVersion: v1, kind: Pot}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, []byte(manifest))
			assert.Error(t, err)
		})
	}
}
