"""Operations of change sets, applied to a tree."""
