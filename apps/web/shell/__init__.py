"""What every page needs: who asks, navigation, refusals, fragments, numbers in words."""
