//! What Holdfast does, one verb per file, over the ports.
