"""The generated messages of api/qosproxy/v1: see generate.sh beside the package."""
