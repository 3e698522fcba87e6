"""Results: trees and tables."""
